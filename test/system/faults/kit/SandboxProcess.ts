/** The sandbox as the parent manages it: its record survives restarts. */
import { Schema } from "effect"
import * as path from "node:path"
import type { FaultSettings } from "../../../../src/sandbox/Faults.ts"
import { decodeReceipt, type Receipt } from "../../../../src/sandbox/Record.ts"
import type { SandboxOptions } from "../../../../src/sandbox/Sandbox.ts"
import { Truth } from "../../../../src/sandbox/Submissions.ts"
import { Child } from "./Child.ts"

const decodeTruth = Schema.decodeSync(Schema.fromJsonString(Truth))

const lines = (text: string): ReadonlyArray<string> => text.split("\n").filter((line) => line !== "")

export class SandboxProcess {
  /** Port of the service; the same after a restart. */
  port = 0
  private controlUrl = ""
  private child: Child | null = null
  private readonly directory: string
  private readonly seed: string
  private faults: FaultSettings

  constructor(options: { readonly directory: string; readonly seed: string; readonly faults: FaultSettings }) {
    this.directory = options.directory
    this.seed = options.seed
    this.faults = options.faults
  }

  /** Resolves when the sandbox listens. */
  start(): Promise<void> {
    const options: SandboxOptions = {
      port: this.port,
      record: path.join(this.directory, "sandbox.jsonl"),
      seed: this.seed,
      faults: this.faults
    }
    return new Promise((resolve, reject) => {
      this.child = new Child({
        script: "../chaos/sandbox.ts",
        config: JSON.stringify(options),
        log: path.join(this.directory, "sandbox.log"),
        compileCache: path.join(this.directory, "compiled"),
        onMessage: (message) => {
          if (message._tag !== "Ready") return
          this.port = Number(new URL(message.url ?? "").port)
          this.controlUrl = message.controlUrl ?? ""
          resolve()
        },
        onEnd: ({ code, signal }) => reject(new Error(`the sandbox ended: code ${code}, signal ${signal}`))
      })
    })
  }

  /** SIGKILL, and a restart on the same record. */
  async crash(): Promise<void> {
    await this.close()
    await this.start()
  }

  async close(): Promise<void> {
    this.child?.signal("SIGKILL")
    await this.child?.ended
  }

  /** Ends the faults of the sandbox, so that unsettled operations can be read. */
  async behave(): Promise<void> {
    this.faults = {}
    await this.control("/faults", { method: "PUT", body: "{}" })
  }

  async record(): Promise<ReadonlyArray<Receipt>> {
    return lines(await this.control("/record")).map((line) => {
      const receipt = decodeReceipt(line)
      if (receipt._tag === "Failure") throw receipt.failure
      return receipt.success
    })
  }

  async truths(): Promise<ReadonlyArray<Truth>> {
    return lines(await this.control("/truth")).map((line) => decodeTruth(line))
  }

  private async control(path: string, init: RequestInit = {}): Promise<string> {
    const response = await fetch(`${this.controlUrl}${path}`, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`${path}: ${text}`)
    return text
  }
}
