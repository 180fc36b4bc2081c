/** The contestants, with the pages that their adapters follow. */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import type { Contestant } from "../types.ts"

const require = createRequire(import.meta.url)

/** The installed version of a package. */
export const versionOf = (name: string): string => {
  for (const folder of require.resolve.paths(name) ?? []) {
    const file = `${folder}/${name}/package.json`
    if (fs.existsSync(file)) return (JSON.parse(fs.readFileSync(file, "utf8")) as { readonly version: string }).version
  }
  return "not installed"
}

export const contestants: ReadonlyArray<Contestant> = [
  {
    name: "gateway",
    program: "gateway.ts",
    versions: {},
    variants: [{
      name: "default",
      documentation: "Submission, docs/submission.md, and Providers, docs/providers.md",
      promises:
        "Sends each payment at most once; leaves to a person what the bank's documentation does not let it prove."
    }],
    needsServer: false,
    needsOwnPackages: false
  },
  {
    name: "hand-written",
    program: "handWritten.ts",
    versions: { pg: versionOf("pg") },
    variants: [{
      name: "default",
      documentation: "Idempotent requests, https://docs.stripe.com/api/idempotent_requests",
      promises: "Retries each request with one key; promises nothing at a bank that ignores or forgets keys."
    }],
    needsServer: false,
    needsOwnPackages: false
  }
]
