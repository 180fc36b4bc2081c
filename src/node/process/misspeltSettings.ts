/**
 * The names of the settings in the environment, and the variables that are likely misspelt ones: a setting that is not read has no effect,
 * and tells nothing.
 */
import * as Effect from "effect/Effect"

/** Every setting that docs/operating.md, docs/authorization.md or docs/operators.md lists. */
export const settingNames: ReadonlyArray<string> = `
  ADMIN_ALLOWED_HOSTS ADMIN_HOST ADMIN_PORT BASE_URL CLIENT_CERTIFICATE_HEADER CONSOLE
  CONSOLE_OIDC_CLIENT_ID CONSOLE_OIDC_CLIENT_SECRET CONSOLE_OIDC_ISSUER CONSOLE_OIDC_ROLE
  CONSOLE_OIDC_ROLE_CLAIM CONSOLE_URL DATABASE_READ_URL DATABASE_SYNCHRONOUS DATABASE_URL DATA_DIR
  DPOP_NONCE_KEY FORCE_COLOR GATEWAY_TOKEN GATEWAY_URL HOST LOG_LEVEL MAX_CONNECTIONS MCP_ALLOWED_ORIGINS
  NO_COLOR OAUTH_ISSUERS OPERATOR OTEL_EXPORTER_OTLP_ENDPOINT OWNER_DATABASE_URL PAYLOAD_KEYS
  PAYLOAD_PLAINTEXT_UNTIL PORT PROVIDER_LIMITS PROVISIONER_DATABASE_URL RATE_LIMIT READER_DATABASE_URL
  REUSE_PORT SANDBOX_WEBHOOK_SECRET SENDER_CONSTRAINED TRUSTED_PROXIES WITNESS WORKER_ID
  WRITER_DATABASE_URL
`.trim().split(/\s+/)

const foreign = /^(?:PG|NODE_|npm_|OTEL_)/u

/** How many letters of the one text must be inserted, removed or replaced for the other one. */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, n) => n)
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1]
    for (const [j, otherLetter] of [...other].entries()) {
      next.push(Math.min(row[j]! + (letter === otherLetter ? 0 : 1), row[j + 1]! + 1, next[j]! + 1))
    }
    row = next
  }
  return row.at(-1)!
}

/** The most edits of a misspelt name. A short name has none: `HOME` is no misspelt `HOST`. */
const mostEdits = (setting: string): number => setting.length < 7 ? 0 : setting.length < 10 ? 1 : 2

/** The variables that are one or two edits away from a setting and are none, each with the nearest setting. */
export const misspeltSettings = (
  variables: ReadonlyArray<string>
): ReadonlyArray<readonly [variable: string, setting: string]> =>
  variables.filter((variable) => !settingNames.includes(variable) && !foreign.test(variable)).flatMap((variable) => {
    const [nearest] = settingNames.map((setting) => ({ setting, edits: distance(variable, setting) }))
      .filter(({ edits, setting }) => edits <= mostEdits(setting))
      .sort((one, other) => one.edits - other.edits)
    return nearest === undefined ? [] : [[variable, nearest.setting] as const]
  })

/** Warns of each variable of the environment that is likely a misspelt setting. It names no value. */
export const warnOfMisspeltSettings = Effect.suspend(() =>
  Effect.forEach(
    misspeltSettings(Object.keys(process.env)),
    ([variable, setting]) =>
      Effect.logWarning(`${variable} is no setting, and has no effect: did you mean ${setting}?`),
    { discard: true }
  )
)
