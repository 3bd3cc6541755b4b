#include "run/rest.hpp"

namespace phantora::run {

void Rest::looked(Found found, Instant when) {
  quiet_ = found == Found::sleep ? quiet_ + 1 : 0;
  if (found == Found::activity || found == Found::naps) {
    calm_since_.reset();
  } else if (!calm_since_) {
    calm_since_ = when;
  }
  const bool awake = found == Found::activity;
  if (awake && was_awake_) {
    naps_since_.reset();
  } else if (!naps_since_) {
    naps_since_ = when;
  }
  was_awake_ = awake;
  rests_ = quiet_ >= looks_asleep || (calm_since_ && when - *calm_since_ > long_enough) ||
           (naps_since_ && when - *naps_since_ > longer);
}

void Rest::moved() {
  quiet_ = 0;
  naps_since_.reset();
  rests_ = false;
}

}  // namespace phantora::run
