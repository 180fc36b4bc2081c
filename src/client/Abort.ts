/** Signals, timers and iterators that clean up after themselves. */

/** Aborts the controller with the outer signal. Returns what ends that: the listener leaves when the run ends. */
const follow = (outer: AbortSignal | undefined, controller: AbortController): () => void => {
  const abort = () => controller.abort(outer?.reason)
  if (outer?.aborted === true) abort()
  outer?.addEventListener("abort", abort)
  return () => outer?.removeEventListener("abort", abort)
}

/** The result, or the reason of the signal if that comes first. A `fetch` of the caller may ignore its signal. */
export const unlessAborted = async <A>(signal: AbortSignal, start: () => Promise<A>): Promise<A> => {
  signal.throwIfAborted()
  return await new Promise<A>((resolve, reject) => {
    const leave = () => signal.removeEventListener("abort", abort)
    const abort = () => {
      leave()
      reject(signal.reason)
    }
    signal.addEventListener("abort", abort)
    start().then(resolve, reject).finally(leave)
  })
}

/** Waits, unless the signal aborts. */
export const sleep = async (seconds: number, signal: AbortSignal): Promise<void> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  try {
    await unlessAborted(signal, () =>
      new Promise((resolve) => {
        timer = setTimeout(resolve, seconds * 1000)
      }))
  } finally {
    clearTimeout(timer)
  }
}

/** Runs for at most a time. Then it rejects with an error of the caller, and aborts what runs. */
export const within = async <A>(
  seconds: number,
  signal: AbortSignal,
  pause: typeof sleep,
  late: () => Error,
  run: (signal: AbortSignal) => Promise<A>
): Promise<A> => {
  const controller = new AbortController()
  const leave = follow(signal, controller)
  const timer = new AbortController()
  // It rejects when the run ends.
  pause(seconds, timer.signal).then(() => controller.abort(late()), () => {})
  try {
    return await unlessAborted(controller.signal, () => run(controller.signal))
  } finally {
    timer.abort()
    leave()
  }
}

/**
 * An iterator over a generator that needs a signal. It ends with the reason of the caller's signal. `return()` aborts what runs:
 * a generator alone would first finish its request.
 */
export const abortable = <A>(
  outer: AbortSignal | undefined,
  generate: (signal: AbortSignal) => AsyncGenerator<A, void, undefined>
): AsyncIterableIterator<A, void, undefined> => {
  const controller = new AbortController()
  const run = async function*() {
    const leave = follow(outer, controller)
    try {
      controller.signal.throwIfAborted()
      yield* generate(controller.signal)
    } finally {
      leave()
    }
  }
  const generator = run()
  let isLeft = false
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next: () =>
      generator.next().catch((error: unknown) => {
        if (isLeft) return { done: true, value: undefined }
        throw error
      }),
    return: async () => {
      isLeft = true
      controller.abort()
      // A request that runs fails now. Its `next` has taken the error.
      await generator.return()
      return { done: true, value: undefined }
    }
  }
}
