/** Stands for content that is being read. */
export const Skeleton = () => (
  <div class="skeleton">
    <p class="visually-hidden" role="status">Loading</p>
    <div class="skeleton-line" />
    <div class="skeleton-block" />
    <div class="skeleton-block" />
  </div>
)
