//! kindom: http.
