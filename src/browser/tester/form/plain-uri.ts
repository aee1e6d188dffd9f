/** Replaces the form library's URI library (by scripts/bundle-browser.mjs): browsers resolve references themselves. */
export default {
  equal: (one: string, other: string): boolean => one === other,
  resolve: (base: string, reference: string): string => new URL(reference, base).href,
};
