// What the people of a Norwegian field-service company type, as the records of the recorded service show it.

export const tasks = [
  'Tømming av oljeutskiller',
  'Vedlikehold heis',
  'Lås og beslag',
  'Snøbrøyting',
  'Utskifting av filter',
  'Installasjon av elbillader',
  'Årlig service på varmepumpe',
  'Kontroll av brannvarslingsanlegg',
  'Reparasjon av lekkasje',
  'Feilsøking på ventilasjon',
  'Montering av sirkulasjonspumpe',
  'Befaring',
] as const
export const places = [
  '',
  ' i kjeller',
  ' i 2. etasje',
  ' på taket',
  ' – hastesak',
  ' / reklamasjon',
] as const
export const endings = ['', '', '', '.', '!', ' 👍', ' 🔧', ', avtale med vaktmester', ' (garanti)'] as const
export const companies = [
  'Håndverk Bolig',
  'Bergen Borettslag',
  'Ålesund Eiendom AS',
  'Sjø & Land Borettslag',
  'Nordlys Sameie',
  'Müller Gebäudetechnik',
] as const
export const towns = ['Oslo', 'Bergen', 'Trondheim', 'Malmö', 'København', 'Ålesund'] as const
export const firstNames = ['Kari', 'Ola', 'Solveig', 'Åse', 'Søren', 'Jürgen', 'Zofia'] as const
export const lastNames = ['Hansen', 'Kowalski', 'Åsen', 'Bøe', "D'Angelo", 'Ødegård', 'Nilsen'] as const
export const contacts = ['Solveig Åsen', 'Per Gynt', 'D\'Angelo "Danny" Berg', '', 'Zoë Lindström'] as const
export const products = [
  'Filter F7',
  'Rør 22 mm',
  'Røykvarsler',
  'Sirkulasjonspumpe 25-60',
  'Kabel 3×2,5 mm²',
] as const
export const services = ['Montering', 'Overtid 50 %', 'Reise', 'Befaring', 'Lærling'] as const
export const checkpoints = ['Trykktest', 'Isolasjonsmåling', 'Bilde av ferdig arbeid', 'Rydding'] as const
export const objects = ['Varmepumpe', 'Elbillader', 'Ventilasjonsaggregat', 'Heis', 'Brannsentral'] as const
export const units = ['stk', 'kg', 'm', 'time'] as const
export const groups = ['Vakt', 'Anlegg', 'Service', 'Prosjekt'] as const
