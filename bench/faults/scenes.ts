/** The scenes: what strikes the workers, the database, the bank and the clocks, and at which step of the payments. */
import { sleep, slowness } from "../../test/long/faults/kit/Clock.ts"
import type { Scene, SceneName } from "./corpus.ts"
import type { BankFault } from "./types.ts"
import type { World } from "./world.ts"

/** The end of `CommandComplete`, and `ReadyForQuery` outside of a transaction. */
const readyForQuery = "\0Z\0\0\0\x05I"

/**
 * Whether an answer of PostgreSQL confirms a commit: `CommandComplete` of a statement with rows, or of COMMIT, and then `ReadyForQuery`
 * outside of a transaction. Polls that find nothing pass, and the settings of a new connection.
 */
const confirmsCommit = (answer: Buffer): boolean => {
  const end = answer.subarray(-40).toString("latin1")
  return end.endsWith(readyForQuery)
    && /(COMMIT|INSERT 0 [1-9]\d*|(UPDATE|DELETE|MERGE|SELECT) [1-9]\d*)$/.test(end.slice(0, -readyForQuery.length))
}

/** Plays a scene until its last fault is over. The payments may still be open. */
type Script = (world: World, scene: Scene) => Promise<void>

const idsOf = ({ payments }: Pick<Scene, "payments">) => new Set(payments.map(({ id }) => id))

/** The first request of each payment meets this fault. */
const plan = (world: World, { payments }: Pick<Scene, "payments">, fault: BankFault) =>
  world.order({ order: "faults", faults: payments.map(({ id }) => ({ id, request: 1, fault })) })

/** A worker has made a first payment, which is not judged. A system may send the first requests one by one. */
const startWarm = async (world: World) => {
  await world.processes.start(0)
  await world.accept([{ id: "first", amount: "1.00", currency: "EUR", payee: "First" }])
  await world.expectPaid(new Set(["first"]))
}

/** A worker has the payments under way, and the bank holds each request at this step. */
const holdAll = async (world: World, scene: Pick<Scene, "payments">, fault: "hold_before" | "hold_after") => {
  plan(world, scene, fault)
  await startWarm(world)
  await world.accept(scene.payments)
  await world.expect("held", idsOf(scene))
}

/** Milliseconds without another held answer, after which a worker has nothing more to write but heartbeats. */
const quiet = 3000 * slowness

/** The answers to commits do not reach the worker any more. Resolves when `act` has led to no more of them. */
const holdCommits = async (world: World, act: () => void) => {
  const link = world.processes.linkOf(0)
  link.holdAnswers(confirmsCommit)
  act()
  for (let [held, rounds] = [-1, 0]; held !== link.held && rounds < 3; rounds++) {
    held = link.held
    await sleep(quiet)
  }
}

/** A worker has claimed the payments and does not know it yet, because the answers of the database are under way. */
const claimAll = async (world: World, scene: Scene) => {
  await startWarm(world)
  // Else it would claim the first payments alone.
  world.processes.freeze(0)
  await world.accept(scene.payments)
  world.note("the answers of the database to worker 0 are late")
  await holdCommits(world, () => world.processes.thaw(0))
}

const killAt = (fault: "hold_before" | "hold_after"): Script => async (world, scene) => {
  await holdAll(world, scene, fault)
  await world.processes.kill(0)
  world.order({ order: "discard" })
  await world.processes.start(0)
}

const scripts: Readonly<Record<SceneName, Script>> = {
  answers: async (world, { payments, planned }) => {
    world.order({ order: "faults", faults: planned })
    await Promise.all([world.processes.start(0), world.processes.start(1)])
    await Promise.all([world.accept(payments), world.accept(payments)])
  },
  kill_claimed: async (world, scene) => {
    // A system with a server of its own tells its worker at once: the next step is the same.
    if (world.processes.hasServer) return killAt("hold_before")(world, scene)
    await claimAll(world, scene)
    await world.processes.kill(0)
    world.processes.linkOf(0).release()
    await world.processes.start(0)
  },
  kill_arrived: killAt("hold_before"),
  kill_booked: killAt("hold_after"),
  kill_answered: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    // The answers reach its machine, and it does nothing with them.
    world.processes.freeze(0)
    world.order({ order: "release" })
    await world.expect("answered", idsOf(scene))
    await world.processes.kill(0)
    await world.processes.start(0)
  },
  kill_recorded: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    const release = () => world.order({ order: "release" })
    if (world.processes.hasServer) {
      release()
      await world.expectPaid(idsOf(scene))
    } else {
      world.note("the answers of the database to worker 0 are lost")
      await holdCommits(world, release)
      await world.expect("answered", idsOf(scene))
    }
    await world.processes.kill(0)
    world.processes.linkOf(0).release()
    await world.processes.start(0)
  },
  freeze_claimed: async (world, scene) => {
    if (world.processes.hasServer) return scripts.freeze_arrived(world, scene)
    await claimAll(world, scene)
    world.processes.freeze(0)
    await world.processes.start(1)
    await world.pass(5)
    await world.met("booked", idsOf(scene), scene.milliseconds / 1000)
    world.processes.linkOf(0).release()
    world.processes.thaw(0)
  },
  freeze_arrived: async (world, scene) => {
    await holdAll(world, scene, "hold_before")
    await world.processes.start(1)
    world.processes.freeze(0)
    await world.pass(5)
    await world.met("booked", idsOf(scene), scene.milliseconds / 1000)
    world.order({ order: "release" })
    world.processes.thaw(0)
  },
  database_restart: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.database.restart(async () => {
      world.order({ order: "release" })
      await world.expect("answered", idsOf(scene))
      await sleep(scene.milliseconds)
    })
  },
  failover: async (world, scene) => {
    // The first half is paid and recorded before the failover. Of the second half the bank has the requests.
    const half = scene.payments.length >> 1
    const [first, second] = [scene.payments.slice(0, half), scene.payments.slice(half)].map((payments) => ({
      payments
    }))
    plan(world, second!, "hold_after")
    // To a system with a server of its own, an acceptance without a worker would be a fault that others do not meet.
    if (world.processes.hasServer) await startWarm(world)
    await world.accept(scene.payments)
    await world.database.detachStandby()
    if (!world.processes.hasServer) await startWarm(world)
    await world.expectPaid(idsOf(first!))
    await world.expect("held", idsOf(second!))
    // The answers are there before the worker looks at the new primary.
    world.processes.freeze(0)
    await world.failOver()
    world.order({ order: "release" })
    await world.expect("answered", idsOf(second!))
    world.processes.thaw(0)
  },
  clock_jump: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.processes.start(1)
    // The other worker looks first: else a heartbeat may extend a lease before the other sees that it has ended.
    if (!world.processes.hasServer) world.processes.freeze(0)
    world.jump(5)
    if (!world.processes.hasServer) await world.met("arrived", idsOf(scene), scene.milliseconds / 1000, 2)
    world.processes.thaw(0)
    world.order({ order: "release" })
    await world.expect("answered", idsOf(scene))
    world.jump(0)
  },
  deploy: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await Promise.all([world.processes.end(0, scene.milliseconds), world.processes.start(1, 2)])
    world.order({ order: "discard" })
    // The new version takes the old worker's place, and its number.
    await world.processes.start(0, 2)
  },
  bank_down: async (world, scene) => {
    // The bank fails while it has the first half of the payments, and is down when the second half is accepted.
    const half = scene.payments.length >> 1
    await holdAll(world, { payments: scene.payments.slice(0, half) }, "hold_after")
    world.note("the bank is down")
    const { port } = world.bankLink
    world.bankLink.close()
    world.order({ order: "discard" })
    await world.accept(scene.payments.slice(half))
    await sleep(scene.milliseconds)
    await world.bankLink.listen(port)
    world.note("the bank is up")
  },
  day: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.processes.kill(0)
    world.order({ order: "discard" })
    await world.pass(25)
    world.order({ order: "forget" })
    world.note("the bank forgets the keys, as it documents")
    await world.processes.start(0)
  }
}

/** Whether a scene needs a standby of the database. */
export const needsStandby = (scene: SceneName): boolean => scene === "failover"

export const play = (world: World, scene: Scene): Promise<void> => scripts[scene.name](world, scene)
