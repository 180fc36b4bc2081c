/** The client on `fetch` is small and runs without Effect, in browsers and Node. The test bundles it for a browser. */
import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { gzipSync } from "node:zlib"

describe("The client on fetch, bundled for a browser", () => {
  it("has 30 KB or less, minified and compressed, and holds only modules of its own", async () => {
    const { metafile, outputFiles } = await build({
      entryPoints: ["src/client/FetchClient.ts"],
      bundle: true,
      minify: true,
      platform: "browser",
      format: "esm",
      write: false,
      metafile: true
    })
    const inputs = Object.keys(metafile.inputs)
    assert.includeMembers(inputs, ["src/client/FetchClient.ts", "src/client/ReadRules.ts"])
    assert.deepStrictEqual(inputs.filter((input) => !input.startsWith("src/client/")), [])
    assert.deepStrictEqual(
      Object.values(metafile.inputs).flatMap(({ imports }) => imports).filter(({ external }) => external),
      []
    )
    assert.isAtMost(gzipSync(outputFiles[0]!.contents).byteLength, 30_000)
  })
})
