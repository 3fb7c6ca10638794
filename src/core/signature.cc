// SPDX-License-Identifier: Apache-2.0
// The rules of kind S. The text is the kernel author's duty, checked once when it is parsed:
//
//   OPABI-S-001  A signature MUST be ASCII text.
//   OPABI-S-002  A signature MUST NOT be longer than 16384 bytes.
//   OPABI-S-003  A signature MUST have "->" between its inputs and its outputs.
//   OPABI-S-004  A signature MUST have the form that the grammar gives.
//   OPABI-S-005  A signature MUST end after its last output.
//   OPABI-S-006  A signature MUST NOT have more than 64 inputs or more than 64 outputs.
//   OPABI-S-007  A port's name MUST NOT be the name of another port or of an argument.
//   OPABI-S-008  A port's type MUST be the name of a dtype, a type variable that is not such a name in
//                capital letters, or, in an output, "?".
//   OPABI-S-009  A type variable of an output MUST be the type of an input.
//   OPABI-S-010  "?" and "<=" MUST stand in outputs only.
//   OPABI-S-011  A port MUST NOT have more than one ellipsis.
//   OPABI-S-012  An ellipsis of an output MUST stand in an input, under the same name.
//   OPABI-S-013  A port MUST NOT have more than 15 dimensions besides its ellipsis.
//   OPABI-S-014  An integer, and what constants give, MUST fit in a signed 64-bit integer.
//   OPABI-S-015  A divisor MUST NOT be the constant 0.
//   OPABI-S-016  Parentheses MUST NOT be nested more than 30 deep.
//   OPABI-S-017  A name in an extent MUST stand alone as an extent of an input, or be an argument's.
//   OPABI-S-018  An argument in an extent MUST be declared with an integer dtype or any, and with rank 0
//                or any.
//   OPABI-S-019  A layout MUST be 1 to 15 letters and digits.
//   OPABI-S-020  A layout MUST have one character for each dimension; beside an ellipsis, at least one
//                for each other dimension.
//   OPABI-S-021  An extent of constants alone MUST NOT be negative.
//
// What arrives is the caller's duty, checked for each batch or sample by every host:
//
//   OPABI-S-031  An input's dtype MUST be the one its port names; under a type variable, any dtype.
//   OPABI-S-032  Inputs under one type variable MUST have one dtype.
//   OPABI-S-033  An input's rank MUST be the number of its port's dimensions; with an ellipsis, at least
//                that of the others; in any case at most 15.
//   OPABI-S-034  An ellipsis MUST stand for equally many extents in all inputs that have it.
//   OPABI-S-035  An output's rank MUST NOT be more than 15 once its ellipsis is known.
//   OPABI-S-036  An input's extent MUST be equal to what its port's dimension gives: a constant, an
//                expression, or a name's value, which is the argument's of that name, else the extent
//                where the name first stands alone; likewise for the extents of an ellipsis.
//   OPABI-S-037  Every step in the evaluation of an extent MUST stay in the signed 64-bit integers.
//   OPABI-S-038  A divisor MUST NOT be 0; the quotient is rounded down.
//   OPABI-S-039  An output's extent, and the bound of one, MUST NOT be negative.
//   OPABI-S-040  An argument in an extent MUST come with an integer dtype, rank 0, and a value that fits
//                in a signed 64-bit integer.
