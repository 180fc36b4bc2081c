/**
 * Time and order of a run. The seed decides which of several runnable events comes first; if none is runnable, time
 * jumps to the next one.
 */
import { Chance } from "./Chance.ts"
import { Trace } from "./Trace.ts"

/** A runner of tasks: a process, which may stop and die. */
export interface Owner {
  readonly number: number
  /** Whether the task may run now. If not, the owner keeps it for later or drops it. */
  readonly admits: (task: () => void) => boolean
}

/** A future event that can be cancelled. */
export interface Due {
  readonly time: number
  /** Orders events that are due at the same time. */
  readonly tie: number
  readonly owner: Owner | null
  readonly run: () => void
  isCancelled: boolean
}

interface Task {
  readonly owner: Owner
  readonly run: () => void
}

const isBefore = (a: Due, b: Due) => a.time < b.time || (a.time === b.time && a.tie < b.tie)

export class World {
  /** Milliseconds of true time, which no simulated clock shows. */
  now = 0
  steps = 0
  readonly chance: Chance
  readonly trace: Trace
  readonly #due: Array<Due> = []
  readonly #runnable: Array<Task> = []

  constructor(seed: number, isVerbose: boolean) {
    this.chance = new Chance(seed)
    this.trace = new Trace(isVerbose, () => this.now)
  }

  /** Schedules an event after this many milliseconds of true time: for its owner, or for the world without one. */
  after(delay: number, run: () => void, owner: Owner | null = null): Due {
    const due = {
      time: this.now + Math.max(0, Math.ceil(delay)),
      tie: this.chance.next(),
      owner,
      run,
      isCancelled: false
    }
    this.#push(due)
    return due
  }

  /** Makes a task runnable. */
  enqueue(owner: Owner, run: () => void): void {
    this.#runnable.push({ owner, run })
  }

  /** Runs one event. False if none is left. */
  step(): boolean {
    this.steps++
    const runnable = this.#runnable
    if (runnable.length > 0) {
      const index = runnable.length === 1 ? 0 : this.chance.below(runnable.length)
      const task = runnable[index]!
      const last = runnable.pop()!
      if (last !== task) runnable[index] = last
      this.#run(task.owner, task.run)
      return true
    }
    const due = this.#pop()
    if (due === undefined) return false
    if (due.isCancelled) return true
    this.now = due.time
    this.#run(due.owner, due.run)
    return true
  }

  #run(owner: Owner | null, run: () => void): void {
    if (owner !== null) {
      if (!owner.admits(run)) return
      this.trace.mix(owner.number)
    }
    run()
  }

  #push(due: Due): void {
    const heap = this.#due
    let index = heap.length
    heap.push(due)
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(due, heap[parent]!)) break
      heap[index] = heap[parent]!
      index = parent
    }
    heap[index] = due
  }

  #pop(): Due | undefined {
    const heap = this.#due
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || first === last) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[index] = heap[child]!
      index = child
    }
    heap[index] = last
    return first
  }
}
