/** Cuts a text to its beginning and copies it, so that the rest does not stay in memory. */
export function cutText(text: string, unitsMax: number): string {
  return text.length > unitsMax ? `${Buffer.from(text.slice(0, unitsMax)).toString()}…` : text;
}
