{{ config(enabled=var('vehicles')) }}
-- How far did each vehicle drive on each day, and from when to when did it move?
select
    tracked.tracker_object_id,
    vehicle.name,
    tracked.day,
    tracked.distance_km,
    tracked.first_moved_at_local as first_moved_at,
    tracked.last_moved_at_local as last_moved_at
from {{ ref('stg_tidemark__tracker_object_day') }} as tracked
left join {{ ref('stg_tidemark__tracker_object') }} as vehicle on vehicle.tracker_object_id = tracked.tracker_object_id
