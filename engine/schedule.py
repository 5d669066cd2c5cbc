"""The learning rate of each update."""

from math import cos, pi

from engine.settings import Settings

# the "step" schedule: a tenth of the rate after half of the updates, a hundredth after three quarters
STEP_FACTOR = 0.1


def learning_rate(settings: Settings, update: int, updates_per_epoch: int) -> float:
    """The rate of update number `update` (from 0).

    Warm-up rises on a straight line from `warmup_from` and reaches `lr` at the first update after it; the schedule
    then covers the updates that are left and ends at `min_lr` (linear, cosine: Loshchilov and Hutter 2017).
    """
    warmup = round(settings.warmup_epochs * updates_per_epoch)
    if update < warmup:
        return settings.warmup_from + (settings.lr - settings.warmup_from) * (update + 1) / (warmup + 1)
    left = max(1, settings.epochs * updates_per_epoch - warmup)
    progress = min(1.0, (update - warmup) / left)
    span = settings.lr - settings.min_lr
    match settings.schedule:
        case "linear":
            return settings.min_lr + span * (1.0 - progress)
        case "cosine":
            return settings.min_lr + span * 0.5 * (1.0 + cos(pi * progress))
        case "step":
            return max(settings.min_lr, settings.lr * STEP_FACTOR ** ((progress >= 0.5) + (progress >= 0.75)))
    return settings.lr
