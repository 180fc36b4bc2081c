/** A variable that is nearly a setting is named at the start, because it has no effect. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { misspeltSettings, settingNames } from "../../../../src/node/process/misspeltSettings.ts"

const docs = ["operating", "authorization", "operators", "cluster", "postgresql"].map((page) =>
  fs.readFileSync(new URL(`../../../../docs/${page}.md`, import.meta.url), "utf8")
)

describe("Misspelt settings", () => {
  it("are found one or two edits away, with the nearest setting", () => {
    assert.deepStrictEqual(
      misspeltSettings(["MAX_CONECTIONS", "RATE_LIMITS", "DATABSAE_URL", "WORKERID", "RATE_LIMIT"]),
      [
        ["MAX_CONECTIONS", "MAX_CONNECTIONS"],
        ["RATE_LIMITS", "RATE_LIMIT"],
        ["DATABSAE_URL", "DATABASE_URL"],
        ["WORKERID", "WORKER_ID"]
      ]
    )
  })

  it("are no settings, and no variables of other programs", () => {
    const others =
      "HOME HOSTS HOSTNAME PATH PWD TERM USER SHELL LANG PORTS SHLVL EDITOR PAGER TMPDIR LOGNAME COLORTERM DEBUG CI TZ "
      + "NODE_ENV NODE_OPTIONS npm_config_user_agent npm_lifecycle_event PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE PGDATA "
      + "POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB REDIS_URL API_URL KUBERNETES_SERVICE_HOST GATEWAY_SERVICE_HOST GATEWAY_PORT "
      + "OTEL_EXPORTER_OTLP_PROTOCOL OTEL_SERVICE_NAME DATABASE_HOST DATABASE_USER DATABASE_NAME BANK_URL BANK_TOKEN SSH_AUTH_SOCK "
      + "CONSOLE_PORT ADMIN_USER LOG_FORMAT LOG_FILE WORKER_COUNT"
    assert.deepStrictEqual(misspeltSettings([...others.split(" "), ...settingNames]), [])
  })

  it("are compared with all settings that the documentation lists", () => {
    const [operating] = docs
    const rows = operating!.split("\n").filter((line) => /^\| `[A-Z][A-Z_]+`/.test(line)).map((line) =>
      line.split("|")[1]!
    )
    const listed = rows.flatMap((cell) => [...cell.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name]) => name!))
    assert.isAbove(listed.length, 30)
    assert.includeMembers([...settingNames], listed)
    for (const name of settingNames) assert.isTrue(docs.some((page) => page.includes(`\`${name}\``)), name)
  })
})
