/** The scenes: what strikes the workers, the database, the bank and the clocks, and at which step of the payments. */
import { sleep, slowness } from "../../test/long/faults/kit/Clock.ts"
import type { Scene, SceneName } from "./corpus.ts"
import type { BankFault } from "./types.ts"
import type { World } from "./world.ts"

/** Plays a scene until its last fault is over. The payments may still be open. */
type Script = (world: World, scene: Scene) => Promise<void>

const idsOf = ({ payments }: Pick<Scene, "payments">) => new Set(payments.map(({ id }) => id))

/** The first request of each payment meets this fault. */
const plan = (world: World, { payments }: Pick<Scene, "payments">, fault: BankFault) =>
  world.order({ order: "faults", faults: payments.map(({ id }) => ({ id, request: 1, fault })) })

/** A worker has made a first payment, which is not judged. A system may send the first requests one by one. */
const startWarm = async (world: World) => {
  await world.start(0)
  await world.accept([{ id: "first", amount: "1.00", currency: "EUR", payee: "First" }])
  await world.met("answered", new Set(["first"]))
  // Its outcome is recorded by then.
  await sleep(1000 * slowness)
}

/** A worker has the payments under way, and the bank holds each request at this step. */
const holdAll = async (world: World, scene: Pick<Scene, "payments">, fault: "hold_before" | "hold_after") => {
  plan(world, scene, fault)
  await startWarm(world)
  await world.accept(scene.payments)
  await world.met("held", idsOf(scene))
}

/** A worker has claimed the payments and does not know it yet, because the answers of the database are under way. */
const claimAll = async (world: World, scene: Scene) => {
  await startWarm(world)
  // Else the answer to a poll before the acceptance could be the late one, and no claim would follow.
  world.freeze(0)
  await world.accept(scene.payments)
  world.note("the answers of the database to worker 0 are late")
  world.linkOf(0).holdAnswers()
  world.thaw(0)
  await sleep(scene.milliseconds)
}

const killAt = (fault: "hold_before" | "hold_after"): Script => async (world, scene) => {
  await holdAll(world, scene, fault)
  await world.kill(0)
  world.order({ order: "discard" })
  await world.start(0)
}

/** The bank answers, and then the worker dies. Its statements or their answers are lost. */
const killAfterAnswer = (lost: "statements" | "answers"): Script => async (world, scene) => {
  await holdAll(world, scene, "hold_after")
  const link = world.linkOf(0)
  world.note(
    lost === "statements"
      ? "what worker 0 writes to the database is lost"
      : "the answers of the database to worker 0 are lost"
  )
  // A system with a server of its own records there. It gets nothing while it is frozen.
  const thaw = lost === "statements" ? world.freezeServer() : () => {}
  // On new connections, too: a pool opens more for the outcomes of a group.
  if (lost === "statements") link.strike("black_hole", scene.milliseconds + 500)
  else link.holdAnswers()
  world.order({ order: "release" })
  await sleep(scene.milliseconds)
  await world.kill(0)
  link.release()
  await sleep(500)
  thaw()
  await world.start(0)
}

const scripts: Readonly<Record<SceneName, Script>> = {
  answers: async (world, { payments, planned }) => {
    world.order({ order: "faults", faults: planned })
    await Promise.all([world.start(0), world.start(1)])
    await Promise.all([world.accept(payments), world.accept(payments)])
  },
  kill_claimed: async (world, scene) => {
    // A system with a server of its own tells its worker at once: the next step is the same.
    if (world.hasServer) return killAt("hold_before")(world, scene)
    await claimAll(world, scene)
    await world.kill(0)
    world.linkOf(0).release()
    await world.start(0)
  },
  kill_arrived: killAt("hold_before"),
  kill_booked: killAt("hold_after"),
  kill_answered: killAfterAnswer("statements"),
  kill_recorded: killAfterAnswer("answers"),
  freeze_claimed: async (world, scene) => {
    if (world.hasServer) return scripts.freeze_arrived(world, scene)
    await claimAll(world, { ...scene, milliseconds: 1500 })
    world.freeze(0)
    await world.start(1)
    world.pass(5)
    await sleep(scene.milliseconds)
    world.linkOf(0).release()
    world.thaw(0)
  },
  freeze_arrived: async (world, scene) => {
    await holdAll(world, scene, "hold_before")
    world.freeze(0)
    await world.start(1)
    world.pass(5)
    await sleep(scene.milliseconds)
    world.order({ order: "release" })
    world.thaw(0)
  },
  database_restart: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.restartDatabase(async () => {
      world.order({ order: "release" })
      await sleep(500)
    })
  },
  failover: async (world, scene) => {
    // The first half is paid and recorded before the failover. Of the second half the bank has the requests.
    const half = scene.payments.length >> 1
    const [first, second] = [scene.payments.slice(0, half), scene.payments.slice(half)]
    plan(world, { payments: second }, "hold_after")
    await world.accept(scene.payments)
    await world.detachStandby()
    await startWarm(world)
    await world.met("answered", new Set(first.map(({ id }) => id)))
    await world.met("held", new Set(second.map(({ id }) => id)))
    await sleep(scene.milliseconds)
    await world.failOver()
    world.order({ order: "release" })
  },
  clock_jump: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.start(1)
    world.jump(5)
    await sleep(scene.milliseconds)
    world.order({ order: "release" })
    await sleep(500)
    world.jump(0)
  },
  deploy: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await Promise.all([world.end(0, scene.milliseconds), world.start(1, 2)])
    world.order({ order: "discard" })
    // The new version takes the old worker's place, and its number.
    await world.start(0, 2)
  },
  bank_down: async (world, scene) => {
    // The bank fails while it has the first half of the payments, and is down when the second half is accepted.
    const half = scene.payments.length >> 1
    const [first, second] = [scene.payments.slice(0, half), scene.payments.slice(half)]
    await holdAll(world, { payments: first }, "hold_after")
    world.note("the bank is down")
    const { port } = world.bankLink
    world.bankLink.close()
    world.order({ order: "discard" })
    await world.accept(second)
    await sleep(scene.milliseconds)
    await world.bankLink.listen(port)
    world.note("the bank is up")
  },
  day: async (world, scene) => {
    await holdAll(world, scene, "hold_after")
    await world.kill(0)
    world.order({ order: "discard" })
    world.pass(25)
    world.order({ order: "forget" })
    world.note("the bank forgets the keys, as it documents")
    await world.start(0)
  }
}

/** Whether a scene needs a standby of the database. */
export const needsStandby = (scene: SceneName): boolean => scene === "failover"

export const play = (world: World, scene: Scene): Promise<void> => scripts[scene.name](world, scene)
