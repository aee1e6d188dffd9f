/**
 * The host name of an address in the form used for comparisons: lower case, no port, no brackets. Empty if there is
 * none.
 */
export function hostnameOf(url: string): string {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, "");
  } catch {
    return "";
  }
}
