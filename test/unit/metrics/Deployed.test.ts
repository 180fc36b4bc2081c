/**
 * Alerts and dashboards name metrics, labels and values that exist; docs/operators.md lists the metrics, and says what to do for each
 * alert. test/system/metrics/Documented.test.ts compares the list with running processes, and `npm run prometheus:check` runs the
 * alerts.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { operationStates } from "../../../src/domain/Operation.ts"
import { conditions, dueWork } from "../../../src/services/LedgerFigures.ts"
import { alerts, dashboards, type Panel, queries } from "../../fixtures/Deployed.ts"
import { type DocumentedMetric, documentedMetrics } from "../../fixtures/MetricsTable.ts"
import { parsePromQl, type Selector } from "../../fixtures/PromQl.ts"

const documented = documentedMetrics()

/** Labels that Prometheus adds to every series. */
const added = ["job", "instance"]

const up: DocumentedMetric = { name: "up", type: "gauge", labels: new Map(), meaning: "" }

const metricOf = (name: string): DocumentedMetric => {
  const family = name === "up" ? up : documented.get(name) ?? documented.get(name.replace(/_bucket$/, ""))
  if (family === undefined) return assert.fail(`${name} does not exist`)
  assert.strictEqual(family.type === "histogram", name.endsWith("_bucket"), `${name} is a ${family.type}`)
  return family
}

const labelsOf = (name: string) => [
  ...metricOf(name).labels.keys(),
  ...added,
  ...name.endsWith("_bucket") ? ["le"] : []
]

/** The plain values that a matcher names. Null: a pattern or a variable of the dashboard. */
const valuesOf = ({ operator, value }: Selector["matchers"][number]): ReadonlyArray<string> | null =>
  operator.includes("~") ? /^[\w|]+$/.test(value) ? value.split("|") : null : [value]

describe("Alerts and dashboards", () => {
  it("name only metrics, labels and values that exist", () => {
    for (const { expr, of } of queries()) {
      const { groupings, selectors } = parsePromQl(expr)
      assert.isNotEmpty(selectors, of)
      for (const { matchers, name } of selectors) {
        for (const matcher of matchers) {
          assert.include(labelsOf(name), matcher.label, `${of}: ${name}`)
          const known = metricOf(name).labels.get(matcher.label) ?? null
          if (known !== null) assert.includeMembers([...known], [...valuesOf(matcher) ?? []], `${of}: ${name}`)
        }
      }
      for (const { labels, selectors } of groupings) {
        for (const { name } of selectors) assert.includeMembers(labelsOf(name), [...labels], `${of}: ${name}`)
      }
    }
  })

  it("show only labels that the results have", () => {
    for (const { expr, of, shown } of queries()) {
      const { groupings, selectors } = parsePromQl(expr)
      // Without an aggregation a result has the labels of its series.
      const left = groupings.length > 0
        ? groupings.map(({ labels }) => labels)
        : selectors.map(({ name }) => labelsOf(name))
      for (const label of shown) assert.isTrue(left.some((labels) => labels.includes(label)), `${of} shows ${label}`)
    }
  })

  it("add rates of counters, and never the figures of the ledger of several processes", () => {
    const ofLedger = [
      "gateway_operations",
      "gateway_operations_held",
      "gateway_operations_under_review",
      "gateway_oldest_operation_age_seconds",
      "gateway_due_operations",
      "gateway_due_lag_seconds",
      "gateway_workers_seen"
    ]
    for (const { expr, of } of queries()) {
      const compact = expr.replaceAll(/\s+/g, "")
      for (const { name } of parsePromQl(expr).selectors) {
        if (ofLedger.includes(name)) {
          assert.match(compact, new RegExp(`max(?:by\\([a-z,]+\\))?\\(${name}[{)]`), `${of}: the maximum of ${name}`)
        }
        const isCounter = metricOf(name).type !== "gauge"
        const isRate = new RegExp(`(?:rate|increase)\\(${name}(?:\\{[^}]*\\})?\\[`).test(compact)
        assert.strictEqual(isRate, isCounter, `${of}: the rate of ${name}`)
      }
    }
  })
})

describe("Alerts", () => {
  const page = fs.readFileSync("docs/operators.md", "utf8")
  const tests = fs.readFileSync("deploy/prometheus/alerts.test.yml", "utf8")

  it.each(alerts().map((alert) => [alert.alert, alert] as const))(
    "%s has texts, a severity, a runbook and tests",
    (name, alert) => {
      assert.match(alert.for, /^\d+m$/)
      assert.include(["critical", "warning"], alert.labels.severity)
      assert.isNotEmpty(alert.annotations.summary)
      assert.match(alert.annotations.description, /\.$/)
      assert.strictEqual(alert.annotations.runbook, `docs/operators.md#${name.toLowerCase()}`)
      const [, section = ""] = page.split(`\n### ${name}\n`)
      assert.strictEqual(section.trimStart().startsWith("**Critical.**"), alert.labels.severity === "critical")
      assert.match(section.split("\n### ")[0]!, /^- /m, "the page says what to do")
      const [, ...own] = tests.split(`alertname="${name}"`)
      assert.isAbove(own.length, 1)
      assert.isTrue(
        own.some((test) => /^[^\n]*\n[^\n]*\n +exp_samples: \[\]/.test(test)),
        "a test in which it does not fire"
      )
      assert.isTrue(own.some((test) => /^[^\n]*\n[^\n]*\n +exp_samples:\n/.test(test)), "a test in which it fires")
    }
  )

  it("have no runbook without an alert", () => {
    const [, runbooks = ""] = page.split("\n## Alerts\n")
    const [own = ""] = runbooks.split("\n## ")
    assert.deepStrictEqual(
      [...own.matchAll(/^### (.+)$/gm)].map(([, name]) => name),
      alerts().map(({ alert }) => alert)
    )
  })
})

const overlaps = ({ gridPos: a }: Panel, { gridPos: b }: Panel) =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h

describe.each(dashboards)("The dashboard %s", (_, { id, panels, templating, uid }) => {
  it("can be imported anywhere: it has no id, and its data source is a variable", () => {
    assert.deepStrictEqual({ id, uid }, { id: null, uid: null })
    assert.isTrue(templating.list.some(({ name, type }) => name === "datasource" && type === "datasource"))
    const used = panels.flatMap(({ datasource, targets = [] }) =>
      [datasource, ...targets.map(({ datasource }) => datasource)].flatMap((source) => source?.uid ?? [])
    )
    assert.deepStrictEqual([...new Set(used)], ["${datasource}"])
  })

  it("has variables whose metrics and labels exist, and uses each of them", () => {
    const text = JSON.stringify(panels)
    for (const { definition, name } of templating.list) {
      assert.include(text, `$${name === "datasource" ? "{datasource}" : name}`)
      if (definition === undefined) continue
      const [, metric = "", label = ""] = /^label_values\((\w+), (\w+)\)$/.exec(definition)!
      assert.include(labelsOf(metric), label)
    }
    for (const [, name] of text.matchAll(/\$(?!\{|__rate_interval)(\w+)/g)) {
      assert.include(templating.list.map((variable) => variable.name), name)
    }
  })

  it("has panels with an id, a title, a description, a unit and queries", () => {
    assert.strictEqual(new Set(panels.map((panel) => panel.id)).size, panels.length)
    assert.strictEqual(new Set(panels.map(({ title }) => title)).size, panels.length)
    for (const { description = "", fieldConfig, targets = [], title, type } of panels) {
      if (type === "row") continue
      assert.match(description, /\.$/, title)
      assert.isString(fieldConfig?.defaults.unit, title)
      assert.isNotEmpty(targets, title)
      for (const { legendFormat } of targets) assert.isNotEmpty(legendFormat, title)
    }
  })

  it("has panels within the grid that do not overlap", () => {
    for (const [at, panel] of panels.entries()) {
      assert.isAtMost(panel.gridPos.x + panel.gridPos.w, 24)
      assert.deepStrictEqual(
        panels.slice(at + 1).filter((other) => overlaps(panel, other)).map(({ title }) => title),
        []
      )
    }
  })
})

describe("The table of metrics in docs/operators.md", () => {
  it("has each family of src/metrics, with its text", () => {
    const family = /name:\s*"([a-z_]+)",\s*help:\s*((?:"[^"]*"[\s+]*)+)/g
    const families = fs.globSync("src/metrics/*.ts").flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(family)].map(([, name, help]) =>
        [name!, [...help!.matchAll(/"([^"]*)"/g)].map(([, part]) => part).join("")] as const
      )
    )
    assert.isNotEmpty(families)
    for (const [name, help] of families) assert.strictEqual(documented.get(name)?.meaning, help, name)
  })

  it("lists states, conditions and work as the ledger names them", () => {
    const valuesIn = (name: string, label: string) => documented.get(name)?.labels.get(label)
    assert.deepStrictEqual(valuesIn("gateway_operations", "state"), operationStates)
    assert.deepStrictEqual(valuesIn("gateway_oldest_operation_age_seconds", "condition"), conditions)
    for (const name of ["gateway_due_operations", "gateway_due_lag_seconds"]) {
      assert.deepStrictEqual(valuesIn(name, "work"), dueWork)
    }
  })
})
