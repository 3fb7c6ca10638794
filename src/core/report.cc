// SPDX-License-Identifier: Apache-2.0
#include "core/report.h"

#include "core/error.h"

namespace opabi {

bool Failure::knows_sample() const {
  const int64_t at = where[OPABI_WHERE_SAMPLE];
  return end - begin == 1 || (at >= 0 && at < end - begin);
}

int64_t Failure::sample() const {
  const int64_t at = where[OPABI_WHERE_SAMPLE];
  return at >= 0 && at < end - begin ? begin + at : begin;
}

Failure MakeFailure(int32_t status, const ErrorBuffer &buffer, int64_t begin, int64_t end) {
  Failure failure;
  failure.happened = true;
  failure.status = status;
  failure.begin = begin;
  failure.end = end;
  failure.message = CleanMessage(buffer.text, sizeof buffer.text);
  for (int i = 0; i < 4; i++) failure.where[i] = buffer.where[i];
  return failure;
}

void ThrowFailure(const Kernel &kernel, const char *function, const Failure &failure) {
  const bool reported = failure.status < 0 || StatusKind(failure.status) != Kind::kRuntime ||
                        (failure.status >= OPABI_ERROR_VALUE && failure.status <= OPABI_ERROR_ABI);
  std::string text = "kernel '" + kernel.name() + "'";
  if (std::string(function) != "run") text += std::string(", ") + function;
  text += " failed";
  if (failure.end > failure.begin) {
    text += failure.knows_sample() ? " at sample " + std::to_string(failure.sample())
                                   : " at one of the samples " + std::to_string(failure.begin) +
                                         " to " + std::to_string(failure.end - 1);
  }
  const Signature &signature = kernel.signature();
  const int64_t in = failure.where[OPABI_WHERE_INPUT], out = failure.where[OPABI_WHERE_OUTPUT];
  if (in >= 0 && in < static_cast<int64_t>(signature.inputs().size()))
    text += ", " + signature.InputLabel(in);
  if (out >= 0 && out < static_cast<int64_t>(signature.outputs().size()))
    text += ", " + signature.OutputLabel(out);
  text += ": " + (failure.message.empty() ? "no message" : failure.message);
  text += " (" + StatusName(failure.status);
  if (failure.where[OPABI_WHERE_NATIVE] != OPABI_UNSET) {
    text += ", native code " + std::to_string(failure.where[OPABI_WHERE_NATIVE]);
  }
  text += ")";
  const std::string rule = !failure.rule.empty() ? failure.rule : reported ? "" : "OPABI-K-001";
  throw Error(StatusKind(failure.status), rule, text);
}

}  // namespace opabi
