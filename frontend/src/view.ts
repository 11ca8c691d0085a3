// The view of a timeline stands in its address.

/** The query string that shows the commits from one to another, whatever range was shown before. */
export function zoomed(search: string, from: string, to: string): string {
  const query = new URLSearchParams(search);
  for (const key of ["last", "around"]) query.delete(key);
  query.set("from", from);
  query.set("to", to);
  return `?${query}`;
}
