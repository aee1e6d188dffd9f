/** The host name of an address as every comparison takes it: lower case, no port, no brackets. Empty where there is none. */
export function hostnameOf(url: string): string {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, "");
  } catch {
    return "";
  }
}
