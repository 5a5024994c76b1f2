#!/usr/bin/env python3
"""The numbers that src/filter/calibrate.rs is tested against, by other algorithms than its own:
isotonic regression by the max-min formula (Barlow et al. 1972), Platt's sigmoid by nested
golden-section search over the cross-entropy of his targets. Needs the standard library only."""

from math import exp, log1p

SCORES = [0.1, 0.2, 0.2, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0]
RIGHT = [0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1]


def isotonic():
    """value(x) = max over a <= x of min over b >= x of the mean between a and b."""
    places = sorted(set(SCORES))

    def mean(low, high):
        inside = [y for x, y in zip(SCORES, RIGHT) if low <= x <= high]
        return sum(inside) / len(inside)

    return [max(min(mean(a, b) for b in places if b >= x) for a in places if a <= x) for x in places]


def platt():
    right = sum(RIGHT)
    wrong = len(RIGHT) - right
    high, low = (right + 1) / (right + 2), 1 / (wrong + 2)

    def loss(slope, intercept):
        total = 0.0
        for x, y in zip(SCORES, RIGHT):
            odds, target = slope * x + intercept, high if y else low
            total += (1 - target) * odds + max(-odds, 0.0) + log1p(exp(-abs(odds)))
        return total

    def search(f, low, high):
        ratio = (5**0.5 - 1) / 2
        for _ in range(200):
            a, b = high - ratio * (high - low), low + ratio * (high - low)
            if f(a) < f(b):
                high = b
            else:
                low = a
        return (low + high) / 2

    best = lambda slope: search(lambda intercept: loss(slope, intercept), -50, 50)
    slope = search(lambda slope: loss(slope, best(slope)), -50, 50)
    return slope, best(slope)


if __name__ == "__main__":
    print("isotonic", [round(value, 10) for value in isotonic()])
    print("platt   ", *(round(value, 6) for value in platt()))
