import { hash } from "node:crypto"

/** Returns a number in [0, 1), evenly distributed. The same seed and parts give the same number. */
export const chance = (seed: string, ...parts: ReadonlyArray<string | number>): number =>
  Number.parseInt(digest(seed, ...parts).slice(0, 12), 16) / 2 ** 48

/** Returns 64 hexadecimal digits. The same seed and parts give the same digits. */
export const digest = (seed: string, ...parts: ReadonlyArray<string | number>): string =>
  // JSON keeps different lists of parts different.
  hash("sha256", JSON.stringify([seed, ...parts]))
