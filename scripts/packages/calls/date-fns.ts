import { addDays, compareAsc, format } from "date-fns";

/** Formats and sorts dates. */
export function dates(): string[] {
  const some = [new Date(1995, 6, 2), new Date(1987, 1, 11), addDays(new Date(1987, 1, 11), 10)];
  return some.sort(compareAsc).map((date) => format(date, "yyyy-MM-dd EEEE"));
}
