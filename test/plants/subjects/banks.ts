/** Mistakes in the adapters for real banks, and in their simulators. */
import { type Plant, unit } from "../Plant.ts"

export const banks: ReadonlyArray<Plant> = [
  {
    rule: "Increase: a transfer that waits for a person of the bank is not paid",
    file: "src/banks/Increase.ts",
    from: "requires_attention: \"submitted\"",
    to: "requires_attention: \"succeeded\"",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Increase: an amount of dollars reaches the bank in whole cents",
    file: "src/banks/Increase.ts",
    from: "Number(dollars + cents.padEnd(2, \"0\"))",
    to: "Number(dollars + cents)",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Increase: a known key with another body is no refusal of this transfer",
    file: "src/banks/Increase.ts",
    from: "refusal(\"invalid_operation_error\", \"not_possible\"),",
    to:
      "refusal(\"invalid_operation_error\", \"not_possible\"),\n    refusal(\"idempotency_key_already_used_error\", \"not_possible\"),",
    tests: [unit("banks/Increase")]
  },
  {
    rule:
      "Increase: the simulator makes no second transfer for a key, and answers another body with the id of the first",
    file: "src/sandbox/banks/IncreaseDialect.ts",
    from: "if (!saying.isSame)",
    to: "if (saying.isFirst && !saying.isSame)",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "a key goes to a bank without TLS to this machine alone",
    file: "src/banks/startChecks.ts",
    from: "protocol === \"https:\" || loopbackHosts.has(hostname)",
    to: "true || protocol === \"https:\" || loopbackHosts.has(hostname)",
    tests: [unit("banks/Increase")]
  }
]
