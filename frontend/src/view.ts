// The address of a timeline holds what it shows.

/** The query string with the range replaced by the commits from one to another. */
export function zoomQuery(search: string, from: string, to: string): string {
  const query = new URLSearchParams(search);
  for (const key of ["last", "around"]) query.delete(key);
  query.set("from", from);
  query.set("to", to);
  return `?${query}`;
}
