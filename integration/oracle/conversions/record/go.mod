module kindom.dev/oracle/conversions/record

go 1.26.0
