import { hash } from "node:crypto"

/** A number in [0, 1), evenly spread, that is always the same for the same seed and parts. */
export const chance = (seed: string, ...parts: ReadonlyArray<string | number>): number =>
  Number.parseInt(digest(seed, ...parts).slice(0, 12), 16) / 2 ** 48

/** A name in hexadecimal digits that is always the same for the same seed and parts. */
export const digest = (seed: string, ...parts: ReadonlyArray<string | number>): string =>
  // As JSON, so that no two lists of parts read the same.
  hash("sha256", JSON.stringify([seed, ...parts]))
