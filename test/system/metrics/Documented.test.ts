/**
 * docs/operators.md lists the metrics of `serve` and `work` as a scrape shows them. Alerts and dashboards are compared with that page
 * (test/unit/metrics/Deployed.test.ts), so they name what real processes export.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { documentedMetrics } from "../../fixtures/metrics/MetricsTable.ts"
import type { Family } from "../../fixtures/metrics/Scrape.ts"
import { scrapedProcesses } from "../../fixtures/metrics/ScrapedProcesses.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

/** The labels of a family, without those of a bucket. */
const labelsOf = ({ samples }: Family) =>
  [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))].filter((label) => label !== "le").toSorted()

const valuesOf = (families: ReadonlyArray<Family>, label: string) =>
  new Set(families.flatMap(({ samples }) => samples.flatMap(({ labels }) => labels[label] ?? [])))

describe("The table of metrics in docs/operators.md", () => {
  it.live("has the names, types, labels and texts of a scrape of serve and work, and no others", () =>
    Effect.gen(function*() {
      const { gateway, worker } = yield* scrapedProcesses
      const documented = documentedMetrics()
      const scraped = [...gateway.families.values(), ...worker.families.values()]
      assert.sameMembers([...documented.keys()], [...new Set(scraped.map(({ name }) => name))])
      for (const { labels, meaning, name, type } of documented.values()) {
        const families = scraped.filter((family) => family.name === name)
        const filled = families.filter(({ samples }) => samples.length > 0)
        assert.isNotEmpty(filled, name)
        for (const family of filled) assert.deepStrictEqual(labelsOf(family), [...labels.keys()].toSorted(), name)
        for (const family of families) assert.deepStrictEqual([family.type, family.help], [type, meaning], name)
        for (const [label, values] of labels) {
          if (values !== null) assert.includeMembers([...values], [...valuesOf(families, label)], `${label} of ${name}`)
        }
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
