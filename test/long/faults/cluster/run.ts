/**
 * The part of a run inside its room, which is a set of namespaces of its own: the cluster, the gateway, the clients and the faults.
 * Ends with 0 when the evidence is complete.
 */
import { Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { expectSoon, monotonic, poll, when } from "../kit/Clock.ts"
import { makeDice } from "../kit/Dice.ts"
import { foundOf } from "../kit/Figure.ts"
import { clockLibrary } from "../kit/JumpingClock.ts"
import { Clients } from "./Clients.ts"
import { Cluster } from "./Cluster.ts"
import { dealFaults, type Fault, nameOf } from "./Faults.ts"
import { Gateways } from "./Gateways.ts"
import { encodeFacts, files, type Injected, makeHistoryWriter, readEvidence, type RunFacts } from "./History.ts"
import { inject } from "./Injector.ts"
import { judge } from "./Judge.ts"
import type { PatroniNode } from "./PatroniNode.ts"
import { type ClusterControl, configVariable, controls, resumesWithin, RunConfig } from "./Plan.ts"

const config = Schema.decodeUnknownSync(RunConfig)(process.env[configVariable])
const control: ClusterControl | null = config.control === null ? null : controls[config.control]
const without = [...config.without, ...control?.without ?? []]
const hasWitness = !without.includes("witness")
const file = (name: keyof typeof files) => path.join(config.out, files[name])
const logs = path.join(config.out, "logs")

/** Seconds for the last reads of all operations. A cluster that does not heal answers none. */
const sweepsWithin = 60

const clock = { wall: Date.now(), monotonic: monotonic() }
const say = (text: string) =>
  void process.stdout.write(`${((monotonic() - clock.monotonic) / 1000).toFixed(0).padStart(5)} s  ${text}\n`)

fs.mkdirSync(logs, { recursive: true })
const cluster = new Cluster({
  say,
  directory: config.directory,
  logs,
  etcd3: control?.etcd3 === true,
  isAsynchronous: control?.isAsynchronous === true
})
const gateways = new Gateways({
  logs,
  record: file("record"),
  without,
  readsInRecovery: control?.readsInRecovery === true
})
const clients = new Clients({ seed: config.seed, write: makeHistoryWriter(file("history")) })
const dice = makeDice(config.seed, "faults")
const injected: Array<Injected> = []
const deaths: Array<string> = []

/** The unsent operations that the ledger holds. */
const heldOn = async (primary: PatroniNode): Promise<number> => {
  const [row] = await primary.query<{ held: number }>(
    "SELECT count(*)::int AS held FROM operations WHERE state = 'accepted' AND (hold_placed OR timeline < ledger_timeline())",
    "gateway"
  )
  return row!.held
}

/** Resolves when clients read, pay and follow again, each with a request that succeeded after this instant. */
const clientsAreServed = (since: number): Promise<true> =>
  expectSoon(
    60,
    "clients are served again",
    async () =>
      when((["read", "list", "accept", "feed"] as const).every((kind) => (clients.lastSuccess.get(kind) ?? 0) > since))
  )

const noteFacts = () => {
  const facts: RunFacts = {
    seed: config.seed,
    clock,
    resumes: hasWitness,
    faults: injected,
    deaths,
    sent: Object.fromEntries(gateways.sent.counts)
  }
  fs.writeFileSync(file("facts"), encodeFacts(facts))
}

const strike = async (fault: Fault, number: number): Promise<void> => {
  const primary = await cluster.becomeWhole(60)
  const onPromotion = () => control?.releasesAtOnce === true ? gateways.releaseAll() : Promise.resolve()
  const struck = await inject(fault, { cluster, gateways, dice, onPromotion }, primary)
  for (const name of gateways.restartDead()) {
    deaths.push(`${name}, after ${struck.name}`)
    say(`the process ${name} ended, and was started again`)
  }
  const next = await cluster.becomeWhole(90)
  await clientsAreServed(struck.healed)
  const whole = monotonic()
  if (hasWitness) await poll(resumesWithin, async () => when(await heldOn(next) === 0), 1000)
  const held = await heldOn(next)
  injected.push({ ...struck, whole, held })
  noteFacts()
  const seconds = (until: number) => ((until - struck.from) / 1000).toFixed(1)
  say(
    `${String(number).padStart(3)}. ${struck.name} (${struck.details}): healed after ${seconds(struck.healed)} s, `
      + `whole after ${seconds(whole)} s, ${held} held`
  )
}

if (clockLibrary === null) say("clocks do not jump: install the package faketime for that")
await cluster.start()
if (cluster.network.slowLinks === "tbf") say("the kernel has no netem: slow links are narrow ones, with a queue")
await gateways.start(cluster, await cluster.becomeWhole(60))
if (hasWitness) await gateways.settleWitness(await cluster.becomeWhole(60))
await clients.start()
await clientsAreServed(0)
noteFacts()
say("the cluster, the gateway and the clients work")
const kinds = control?.faults ?? config.kinds
let failure: unknown = null
for (const [index, fault] of dealFaults(config.faults, kinds, makeDice(config.seed, "deck")).entries()) {
  try {
    await strike(fault, index + 1)
  } catch (error) {
    failure = error
    say(`${index + 1}. ${nameOf(fault)}: ${String(error)}`)
  }
  if (control !== null) {
    await clients.sweep(sweepsWithin)
    noteFacts()
    const found = foundOf(control, judge(readEvidence(config.out)))
    if (found.length > 0) {
      say(`found: ${found.map(({ name, value }) => `${value} ${name}`).join(", ")}`)
      break
    }
  }
  if (failure !== null) break
}
await clients.stopPaying(30)
if (hasWitness) await poll(10, async () => when(await heldOn(await cluster.becomeWhole(10)) === 0), 1000)
await clients.sweep(sweepsWithin)
await clients.stop()
noteFacts()
say("the evidence is complete")
process.exit(failure === null ? 0 : 1)
