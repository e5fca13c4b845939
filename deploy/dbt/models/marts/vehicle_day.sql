{{ config(enabled=var('vehicles')) }}
-- How far did each vehicle drive on each day, and from when to when did it move?
select
    tracker_object_id,
    _observed_at_local::date as day,
    max(odometer) - min(odometer) as distance,
    min(_observed_at_local) filter (where speed > 0) as first_moved,
    max(_observed_at_local) filter (where speed > 0) as last_moved
from {{ ref('stg_tidemark__tracker_object_history') }}
where _deleted_at is null
group by 1, 2
