-- Operators record what they know of an operation as an action, with a reason.

ALTER TABLE operator_actions
  DROP CONSTRAINT operator_actions_action_check,
  ADD CONSTRAINT operator_actions_action_check CHECK (
    action IN ('review', 'end_review', 'hold', 'release', 'cancel', 'hold_all', 'release_all', 'advance')
  ),
  ADD CONSTRAINT operator_actions_advance_check CHECK (action <> 'advance' OR reason IS NOT NULL);
