// Numbers that look random and follow from a seed alone, so that a stand-in with the same seed serves the same records.

/** 32 well-mixed bits that follow from three integers. */
export function hash(seed: number, id: number, salt: number): number {
  let bits = seed ^ Math.imul(id, 0x9e3779b1) ^ Math.imul(salt + 1, 0x632be59b)
  bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** A sequence of numbers in [0, 1). */
export type Random = () => number

export function seededRandom(seed: number): Random {
  let count = 0
  return () => hash(seed, ++count, 0x5eed) / 2 ** 32
}

export function pick<T>(items: readonly T[], number: number): T {
  const item = items[number % items.length]
  if (item === undefined) throw new RangeError('There is nothing to pick from.')
  return item
}

export const integerBelow = (random: Random, limit: number): number => Math.floor(random() * limit)

/** Fisher–Yates, in place. */
export function shuffle<T>(items: T[], random: Random): T[] {
  for (let last = items.length - 1; last > 0; last--) {
    const other = integerBelow(random, last + 1)
    const held = items[last] as T
    items[last] = items[other] as T
    items[other] = held
  }
  return items
}

const hexPairs = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hexOf = (bits: number, byte: number) => hexPairs[(bits >>> (byte * 8)) & 255]

/** A version 4 UUID that follows from three integers. */
export function uuidFrom(seed: number, id: number, salt: number): string {
  const a = hash(seed, id, salt)
  const b = hash(a, id, 1)
  const c = hash(b, id, 2)
  const d = hash(c, id, 3)
  return (
    `${hexOf(a, 0)}${hexOf(a, 1)}${hexOf(a, 2)}${hexOf(a, 3)}-${hexOf(b, 0)}${hexOf(b, 1)}-` +
    `4${hexOf(b, 2)?.[0]}${hexOf(b, 3)}-8${hexOf(c, 0)?.[0]}${hexOf(c, 1)}-` +
    `${hexOf(c, 2)}${hexOf(c, 3)}${hexOf(d, 0)}${hexOf(d, 1)}${hexOf(d, 2)}${hexOf(d, 3)}`
  )
}

// The vocabulary of the generated records: what a field-service company in the north of Europe would have typed.
export const subjects = [
  'Replace circulation pump',
  'Årlig service varmepumpe',
  'Fire alarm: detector fault',
  'Inspection of lift 3',
  'Lekkasje under kjøkkenbenk',
  'Install charging point, 2 × 22 kW',
  'Ventilation: filter change',
  'Störung Lüftungsanlage',
  'Quote follow-up "north wing"',
  'Emergency: no hot water',
] as const

export const details = [
  'Customer reports noise from the outdoor unit when it starts; comes and goes with the frost. Key with the caretaker.',
  'Avtalt service. Nøkkel hentes i resepsjonen, ring 30 minutter før ankomst. Husk å fotografere målerstand.',
  'Two detectors on floor 4 show a fault after the renovation.\nAccess only before 07:00 — the shop opens at 08:00.',
  'Regulärer Austausch nach Wartungsplan; Ersatzteile liegen im Lager (Regal 14/B). Rücksprache mit Frau Müller.',
] as const

export const companies = [
  'Bergvik Eiendom AS',
  'Åsland & Sønner',
  'Nordlys Housing Co-operative',
  'Müller Gebäudetechnik GmbH',
  'Havnegata 12 Sameie',
  'Østre Fjord Kommune',
  'Tidevann Hotell Drift AS',
  "O'Neill Facility Ltd",
] as const

export const givenNames = ['Kari', 'Bjørn', 'Ingrid', 'Søren', 'Jürgen', 'Anne-Lise', 'Omar', 'Zoë'] as const
export const familyNames = ['Nordmann', 'Ødegård', "O'Brien", 'Müller', 'Lindström', 'Haugen'] as const

export const streets = [
  'Storgata',
  'Havnegata',
  'Kirkeveien',
  'Industriveien',
  'Bjørkelia',
  'Lindenstraße',
] as const
export const cities = [
  { zipCode: '0155', city: 'Oslo', latitude: 59.9109, longitude: 10.7461 },
  { zipCode: '5003', city: 'Bergen', latitude: 60.393, longitude: 5.3242 },
  { zipCode: '7010', city: 'Trondheim', latitude: 63.4305, longitude: 10.3951 },
  { zipCode: '9008', city: 'Tromsø', latitude: 69.6492, longitude: 18.9553 },
  { zipCode: '04600', city: 'Altenburg', latitude: 50.9868, longitude: 12.4366 },
] as const

export const statuses = [
  'Registered',
  'Planned',
  'Underway',
  'Waiting for parts',
  'Done',
  'Invoiced',
] as const
export const assignmentTypes = ['Service', 'Installation', 'Emergency', 'Inspection'] as const
export const productNames = [
  'Filter F7 592×592',
  'Circulation pump 25-60',
  'Smoke detector',
  'Cable 3×2,5 mm²',
] as const
export const serviceNames = ['Labour, fitter', 'Labour, apprentice', 'Travel', 'Call-out fee'] as const
export const checkNames = [
  'Pressure test',
  'Insulation resistance',
  'Photo of the finished work',
  'Signature',
] as const
export const objectNames = ['Heat pump', 'Lift', 'Fire panel', 'Ventilation unit', 'Charging point'] as const
export const vehicleModels = ['Ford Transit', 'VW Caddy', 'Toyota Proace', 'Mercedes eVito'] as const
export const noteTexts = [
  'Called the customer, no answer. Tries again tomorrow.',
  'Del bestilt, leveres torsdag.',
  'Finished, tested for 30 minutes, pressure stable at 1.8 bar.',
  'Gate code is on the key tag; do NOT ring the bell before 7.',
] as const
