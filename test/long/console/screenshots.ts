/**
 * `npm run screenshots`: writes pictures of the console's pages, as `docs/operators.md` shows them. The ledger behind them is the one
 * of the tests.
 *
 *     npm run screenshots -- --folder /tmp/pictures
 */
import { Console, Effect, Layer } from "effect"
import * as path from "node:path"
import { readOptions, text } from "../../../bench/shared/usage.ts"
import { root } from "../../../scripts/bundle.ts"
import { Browser, type PageOptions, type Tab } from "../../fixtures/console/Browser.ts"
import { ConsoleScene, PageAssets } from "../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../fixtures/console/ConsoleServer.ts"
import { idOf } from "../../fixtures/console/SceneOperations.ts"

const values = readOptions(import.meta.url, {
  folder: text("Writes them to this folder", { takes: "FOLDER", default: "docs/images/console" })
})
const folder = path.resolve(root, values.folder)

const desktop = { width: 1280, height: 900 } as const
const phone = { width: 390, height: 844, scale: 1 } as const

interface Picture {
  readonly name: string
  readonly address: string
  readonly size: PageOptions
  /** What is shown when the page is complete. */
  readonly complete: string
  readonly prepare?: (tab: Tab) => Promise<void>
}

const openDialog = async ({ page }: Tab) => {
  await page.getByRole("button", { name: "Release" }).click()
  await page.getByRole("dialog").waitFor()
}

const pictures: ReadonlyArray<Picture> = [
  { name: "overview", address: "", size: { ...desktop, height: 1400 }, complete: ".plot .axes" },
  { name: "queues", address: "/queues/indeterminate", size: { ...desktop, height: 620 }, complete: ".operations" },
  { name: "operation", address: `/operations/${idOf(1)}`, size: { ...desktop, height: 1230 }, complete: ".timeline" },
  {
    name: "release",
    address: `/operations/${idOf(5)}`,
    size: { ...desktop, height: 760 },
    complete: ".timeline",
    prepare: openDialog
  },
  { name: "search", address: "/search?text=acme-gmbh", size: { ...desktop, height: 560 }, complete: ".operations" },
  { name: "overview-phone", address: "", size: phone, complete: ".plot .axes" },
  { name: "queues-phone", address: "/queues/indeterminate", size: phone, complete: ".operations" },
  { name: "operation-phone", address: `/operations/${idOf(1)}`, size: phone, complete: ".timeline" },
  { name: "release-phone", address: `/operations/${idOf(5)}`, size: phone, complete: ".timeline", prepare: openDialog }
]

const take = Effect.fnUntraced(function*(picture: Picture, scheme: "light" | "dark", cookiesOf: Tab) {
  const { address, complete, name, prepare, size } = picture
  const { origin } = yield* ConsoleServer
  const tab = yield* (yield* Browser).open(`${origin}/console${address}`, { ...size, scheme, cookiesOf })
  yield* Effect.promise(async () => {
    await tab.page.locator(complete).first().waitFor()
    await tab.page.locator(".connection-live").waitFor()
    await prepare?.(tab)
    await tab.screenshot(path.join(folder, `${name}-${scheme}.png`))
    tab.expectClean()
  })
  yield* Console.log(`${name}, ${scheme}`)
}, Effect.scoped)

const program = Effect.gen(function*() {
  const signedIn = yield* (yield* Browser).open((yield* ConsoleServer).link())
  for (const picture of pictures) {
    for (const scheme of ["light", "dark"] as const) yield* take(picture, scheme, signedIn)
  }
}).pipe(Effect.scoped)

const services = ConsoleScene.services.pipe(Layer.provide(ConsoleScene.layer))

await Effect.runPromise(Effect.provide(program, [consoleServer(services, { assets: PageAssets }), Browser.layer]))
