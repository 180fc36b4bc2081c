/**
 * Refuses an old Node with one line. `src/main.ts` imports this module first. It imports nothing, so that it loads on
 * each version.
 */

/** The oldest Node that runs the gateway: that of `engines` in package.json. */
export const oldestNode = "22.19"

/** How to get a newer Node: everywhere, or with npm for one shell. */
export const newerNode = "Install a newer Node, or one for this shell: npm install --prefix ~/node-24 node@24 "
  + "&& export PATH=~/node-24/node_modules/node/bin:\"$PATH\""

/** The line that refuses a version of Node; null if it is new enough. */
export const refusalOf = (version: string): string | null => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  const [leastMajor = 0, leastMinor = 0] = oldestNode.split(".").map(Number)
  return major > leastMajor || (major === leastMajor && minor >= leastMinor)
    ? null
    : `financial-agents-gateway needs Node ${oldestNode} or newer; this is v${version}. ${newerNode}`
}

const refusal = refusalOf(process.versions.node)
if (refusal !== null) {
  process.stderr.write(`error: ${refusal}\n`)
  process.exit(1)
}
