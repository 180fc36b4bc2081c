/**
 * The room `sandbox/banks`: dialects of real banks, for `sandbox --bank NAME`: paths, headers, key rules, states and errors as a bank documents them.
 * A bank takes no instructions to a sandbox. So the text that a payment carries may have them: `sandbox {"outcome":"failed"}`.
 */
import type { Dialect } from "../Dialect.ts"
import { alpacaDialect } from "./AlpacaDialect.ts"
import { increaseDialect } from "./IncreaseDialect.ts"
import { makeOpenBankingUkDialect } from "./OpenBankingUkDialect.ts"

/** By the name of the bank. */
export const bankDialects: Readonly<Record<string, Dialect>> = {
  alpaca: alpacaDialect,
  increase: increaseDialect,
  "open-banking-uk": makeOpenBankingUkDialect()
}
