import { announcement } from "../data/announcements.ts"
import { useStore } from "../data/store.ts"

/** Announces changes to screen readers without moving the focus. */
export const LiveRegion = () => <p class="visually-hidden" aria-live="polite">{useStore(announcement)}</p>
