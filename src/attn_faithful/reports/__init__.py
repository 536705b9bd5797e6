"""What people read: tables and figures, made from run folders only."""
