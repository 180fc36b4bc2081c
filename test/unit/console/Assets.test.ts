/** The files of the console's page: what a browser loads, and how much of it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gzipSync } from "node:zlib"
import { loadAssets } from "../../../src/operator/console/ConsoleAssets.ts"

/** Bytes of all files of the page, compressed. It has 25,600; the bound leaves room for fixes, and none for another library. */
const maxSize = 32 * 1024

describe("The files of the console", () => {
  it.effect("are the page, and files whose names change with their contents", () =>
    Effect.gen(function*() {
      const names = [...(yield* loadAssets()).keys()]
      assert.sameMembers(names.map((name) => name.replace(/-[A-Z0-9]{8}\./, "-HASH.")), [
        "assets/favicon-HASH.svg",
        "assets/main-HASH.css",
        "assets/main-HASH.js",
        "index.html"
      ])
    }))

  it.effect("refer only to each other", () =>
    Effect.gen(function*() {
      const assets = yield* loadAssets()
      const page = Buffer.from(assets.get("index.html")!.bytes).toString()
      const links = [...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link]) => link!)
      assert.sameMembers(
        links,
        [...assets.keys()].filter((name) => name !== "index.html").map((name) => `/console/${name}`)
      )
      for (const [name, { bytes }] of assets) {
        const addresses = Buffer.from(bytes).toString().match(/(?:https?:)?\/\/[a-z][\w.-]*\.[a-z]+[^\s"'`)]*/g) ?? []
        // Names of XML vocabularies, which no browser loads.
        assert.deepStrictEqual(addresses.filter((address) => !address.startsWith("http://www.w3.org/")), [], name)
      }
    }))

  it.effect("hold no inline script and no inline style: the policy of the page forbids them", () =>
    Effect.gen(function*() {
      const page = Buffer.from((yield* loadAssets()).get("index.html")!.bytes).toString()
      assert.notMatch(page, /<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)/)
    }))

  it.effect("have a size that a slow connection takes", () =>
    Effect.gen(function*() {
      const size = [...(yield* loadAssets()).values()].reduce((sum, { bytes }) => sum + gzipSync(bytes).length, 0)
      assert.isAtMost(size, maxSize)
    }))
})
