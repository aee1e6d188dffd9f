/** A time as the reader of the page writes it. */
export function timeOf(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
