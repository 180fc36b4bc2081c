/** Milliseconds of the monotonic clock, which all processes of the machine share. */
export const monotonic = (): number => Number(process.hrtime.bigint() / 1000n) / 1000

/**
 * Multiplies the times of a run: FAULTS_SLOWNESS, 1 on a machine of its own. On a machine that others use, one second may be too short for
 * every statement, and nothing would ever end.
 */
export const slowness = Number(process.env["FAULTS_SLOWNESS"] ?? 1)

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Resolves to the first result that is not null, or to null when the time is over. Failures count as null. */
export const poll = async <A>(
  seconds: number,
  attempt: () => Promise<A | null>,
  pause = 200
): Promise<A | null> => {
  const end = monotonic() + seconds * 1000
  while (monotonic() < end) {
    const found = await attempt().catch(() => null)
    if (found !== null) return found
    await sleep(pause)
  }
  return null
}

/** The same, and a failure with this text when the time is over. */
export const expectSoon = async <A>(
  seconds: number,
  what: string,
  attempt: () => Promise<A | null>
): Promise<A> => {
  const found = await poll(seconds, attempt)
  if (found === null) throw new Error(`${what}: not within ${seconds} s`)
  return found
}

/** For `poll`: true, or null to try again. */
export const when = (condition: boolean): true | null => condition || null
