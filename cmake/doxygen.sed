# What Doxygen is given of a header: plain comments of C as documentation, and nothing that means what
# the language says (copies, moves, an object's end, comparison member by member). Lines keep their numbers.
s%^( *)/\* ([^-])%\1/** \2%
s%^( *[^ /].*[^ ]) +/\* %\1 /**< %
s/^ +(virtual )?~[A-Za-z0-9]+\(\)( = default)?;$//
s/^ +([A-Za-z0-9]+)\((const )?\1 ?&&?\)( noexcept)?( = [a-z]+)?;$//
s/^ +([A-Za-z0-9]+)& operator=\((const )?\1 ?&&?\)( noexcept)?( = [a-z]+)?;$//
s/^ +(constexpr )?[A-Za-z0-9]+\(\) = default;$//
s/^ +(friend |constexpr )*(auto|bool) operator(<=>|==)\(.*\)( const)? = default;$//
# A comment behind several names is of all of them.
s%^( +)([^(/]*, [^(/]*;) +///< (.*)$%\1/** @{ \3 */ \2 /** @} */%
s%^( +)([^(/]*, [^(/]*;) +/\*\*< (.*) \*/$%\1/** @{ \3 */ \2 /** @} */%
