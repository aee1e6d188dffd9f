import semver from "semver";

/** Compares and raises versions. */
export function versions(): { satisfies: boolean; next: string | null; sorted: string[] } {
  return {
    satisfies: semver.satisfies("1.2.3", "1.x || >=2.5.0 || 5.0.0 - 7.2.3"),
    next: semver.inc("1.2.3", "minor"),
    sorted: semver.sort(["1.10.0", "1.9.0", "1.9.0-beta.1"]),
  };
}
