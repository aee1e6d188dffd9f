/** The first place in the definition's own files: `file:line:column`. A stack may hold anything that a guest writes. */
export function placeThrownAt(stack: string | undefined): string | undefined {
  return /^[ \t]+at (?:.*\()?(?:definition:)?([^\s()]+:\d+:\d+)\)?$/m.exec(stack ?? "")?.[1];
}
