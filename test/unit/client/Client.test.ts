/**
 * Both clients follow operations by the same rules. One suite runs against each, over scripted answers and a test clock.
 */
import { describe } from "@effect/vitest"
import { effectDriver, fetchDriver } from "../../fixtures/client/ClientDrivers.ts"
import { faultProperties } from "../../fixtures/client/faultProperties.ts"
import { feedRules } from "../../fixtures/client/feedRules.ts"
import { followRules } from "../../fixtures/client/followRules.ts"
import { repetitionRules } from "../../fixtures/client/repetitionRules.ts"

describe.each([["the Effect client", effectDriver], ["the client on fetch", fetchDriver]])("%s", (_, driver) => {
  followRules(driver)
  feedRules(driver)
  repetitionRules(driver)
  faultProperties(driver)
})
