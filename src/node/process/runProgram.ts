/** Runs a program as the process: its platform, its signals, its exit code, and its error as one line. */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { hash } from "node:crypto"
import { RequestIds } from "../../services/RequestIds.ts"
import { allocateYoung, growYoung } from "../youngGeneration.ts"
import { failureLine } from "./failureLine.ts"

/**
 * Computes SHA-256 in one call to OpenSSL. Node's streaming `createHash` takes more than half as long again. Other algorithms stay
 * with the platform's digests.
 */
const OneShotDigest: Layer.Layer<Digest.Digest> = Layer.effect(
  Digest.Digest,
  Effect.map(Digest.Digest, (platform) =>
    Digest.Digest.of({
      ...platform,
      digestHex: (algorithm, data) =>
        algorithm === Digest.sha256
          ? Effect.sync(() => hash("sha256", data, "hex"))
          : platform.digestHex(algorithm, data)
    }))
).pipe(Layer.provide(NodeCrypto.layerDigest))

/** Milliseconds in which most programs without a server have started. */
const startTime = 2000

/**
 * The services of Node that the gateway uses: files, paths, processes, standard streams and cryptography. With them the ids of requests.
 */
export const Platform = Layer.mergeAll(
  NodeHttpServer.layerHttpServices,
  NodeCrypto.layerAead,
  OneShotDigest,
  Layer.provideMerge(RequestIds.layer, NodeCrypto.layerSecureRandom)
)

/** Prints the failure of a program as one line on standard error, unless `isReported` says that it was printed already. */
export const reportFailure = <A, E, R>(
  program: Effect.Effect<A, E, R>,
  isReported: (error: unknown) => boolean = () => false
): Effect.Effect<A, E, R> =>
  Effect.tapCause(
    program,
    (cause) =>
      Cause.hasInterruptsOnly(cause) || isReported(Cause.squash(cause))
        ? Effect.void
        : Console.error(`error: ${failureLine(Cause.squash(cause))}`)
  )

/**
 * Runs the program until it ends or a signal arrives. SIGTERM and SIGINT interrupt it, and the process exits with 0. A
 * failure is one line on standard error and exit code 1. `isReported` selects failures that were printed already.
 */
export const runProgram = <E>(
  program: Effect.Effect<unknown, E>,
  { isReported }: { readonly isReported?: (error: unknown) => boolean } = {}
): void => {
  allocateYoung()
  setTimeout(growYoung, startTime).unref()
  // Closing a terminal stops the program like SIGTERM. Without a terminal, nohup or a service manager sends SIGHUP.
  if (process.stdout.isTTY) process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"))
  NodeRuntime.runMain(
    reportFailure(program, isReported),
    {
      disableErrorReporting: true,
      // A signal is the normal way to stop a server, so it is a success.
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    }
  )
}
