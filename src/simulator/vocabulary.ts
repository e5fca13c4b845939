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
