#include "lnet/core/md.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/base/assert.h"

namespace ulnet::core {

void Md::set_fragments(const std::vector<iovec>& from) {
  length = 0;
  for (const iovec& fragment : from) length += fragment.iov_len;
  fragment_count = static_cast<uint32_t>(from.size());
  if (from.size() == 1) {
    one_fragment = from.front();
  } else {
    more_fragments = from;
  }
}

void Md::take_operation() {
  ULNET_ASSERT(threshold != 0, "an operation on an exhausted MD");
  if (threshold != kThresholdInfinite) --threshold;
}

Fit fit_request(const Md& md, uint32_t requested, uint32_t request_offset) {
  const uint64_t offset = (md.options & kMdManageRemote) != 0 ? request_offset : md.offset;
  // A remote offset beyond the MD: never subtract it from the length (14.2).
  if (offset > md.length) return {Fit::Kind::kBadOffset, 0, 0};
  uint64_t space = md.length - offset;
  if ((md.options & kMdMaxSize) != 0) space = std::min<uint64_t>(space, md.max_size);
  if (requested > space && (md.options & kMdTruncate) == 0) return {Fit::Kind::kTooLong, 0, 0};
  const auto mlength = static_cast<uint32_t>(std::min<uint64_t>(requested, space));
  return {Fit::Kind::kAccepted, static_cast<uint32_t>(offset), mlength};
}

Status validate_md(const MdSpec& spec, bool passive) {
  const bool targets = (spec.options & (kMdPut | kMdGet)) != 0;
  if (passive && !targets) {
    return {EINVAL,
            fmt::format("MD options {:#x} allow neither PUT nor GET: an attached MD needs one",
                        spec.options)};
  }
  if (!passive && targets) {
    return {EINVAL, fmt::format("MD options {:#x} allow PUT or GET: a bound MD is not a target",
                                spec.options)};
  }
  if (spec.fragments.size() > kFragmentsMax) {
    return {EINVAL, fmt::format("{} fragments, at most {} are allowed", spec.fragments.size(),
                                kFragmentsMax)};
  }
  uint64_t length = 0;
  for (size_t i = 0; i < spec.fragments.size(); ++i) {
    const iovec& fragment = spec.fragments[i];
    if (fragment.iov_base == nullptr && fragment.iov_len > 0) {
      return {EINVAL,
              fmt::format("fragment {} has {} bytes at a null address", i, fragment.iov_len)};
    }
    if (__builtin_add_overflow(length, fragment.iov_len, &length) || length > UINT32_MAX) {
      return {EINVAL, fmt::format("fragments up to {} are longer than {} bytes", i, UINT32_MAX)};
    }
  }
  if (!passive && length > kPayloadBytesMax) {
    return {EINVAL, fmt::format("MD of {} bytes, one message carries at most {}", length,
                                kPayloadBytesMax)};
  }
  if ((spec.options & kMdMaxSize) != 0 && spec.max_size > length) {
    return {EINVAL, fmt::format("max_size {} is above the MD's {} bytes", spec.max_size, length)};
  }
  if (spec.threshold < kThresholdInfinite || spec.threshold == 0) {
    return {EINVAL, fmt::format("threshold {} is neither positive nor {} (infinite)",
                                spec.threshold, kThresholdInfinite)};
  }
  return Status::ok();
}

}  // namespace ulnet::core
