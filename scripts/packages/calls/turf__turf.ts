import * as turf from "@turf/turf";

/** Distances and areas. */
export function measured(): { kilometers: number; isInside: boolean; center: number[] } {
  const [from, to] = [turf.point([-75.343, 39.984]), turf.point([-75.534, 39.123])];
  const square = turf.polygon([
    [
      [0, 0],
      [0, 4],
      [4, 4],
      [4, 0],
      [0, 0],
    ],
  ]);
  return {
    kilometers: Math.round(turf.distance(from, to)),
    isInside: turf.booleanPointInPolygon([1, 1], square),
    center: turf.center(square).geometry.coordinates,
  };
}
