// Which random worlds a property reads: `SEED` names them. In CI they are the same each time, so that a red run is due to what changed;
// `npm run worlds` looks for new ones.

const seedInCi = 4_117

export function worldSeed(): { readonly seed?: number } {
  const { SEED, CI } = process.env
  if (SEED) return { seed: Number(SEED) }
  return CI ? { seed: seedInCi } : {}
}
