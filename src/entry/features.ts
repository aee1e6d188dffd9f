let features: readonly { readonly name: string }[] = [];

/** Sets the features of this program, once per process and before any entry is read. */
export function setFeatures(all: typeof features): void {
  features = all;
}

export function hasFeature(name: string): boolean {
  return features.some((feature) => feature.name === name);
}
